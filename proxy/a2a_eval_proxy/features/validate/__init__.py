"""`validate`: what is wrong with a suite, before anything is sent to the agent."""
