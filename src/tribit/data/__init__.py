"""What was seen: observations with their ids, data frames and files."""
