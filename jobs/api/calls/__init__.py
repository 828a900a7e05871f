"""What makes calls safe to repeat and edits safe to make at once: headers that every write understands."""
