"""The one room that asks which backend runs. Each function has one meaning, and a fast body if it helps."""
