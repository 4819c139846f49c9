"""The page of a run or a comparison: one file, opened anywhere, that loads nothing.

`page/` holds its scripts and its style; what they draw is thinned in `report_data.py` to what a
picture can show. A text from a trace or a job file is data, never markup.
"""
