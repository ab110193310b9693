"""Work on a turn: timeline, raw wire, annotations, new cases. The page of a turn shows these parts."""
