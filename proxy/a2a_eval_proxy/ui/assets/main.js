// Starts what the page has elements for.
