"""The revisions, the oldest first by name. One that was released is never changed: what follows adds to it."""
