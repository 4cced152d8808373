"""What an attention does, by replaying it with changed insides."""
