"""Headers that every write understands: they make calls safe to repeat and edits safe to make at once."""
