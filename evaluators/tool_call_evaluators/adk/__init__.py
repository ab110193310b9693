"""google-adk: reads its evalsets (`evalset`), and the criteria in the same folder (`criteria`)."""
