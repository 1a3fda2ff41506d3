"""Data: observations with their ids, data frames and files."""
