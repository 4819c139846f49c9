"""What is on record of jobs and users, and stays there when the machine loses power.

Only `store.py` and `tables.py` speak to the database, and all writes go by the book. A column is
never renamed: `tables.py` brings the files of earlier versions up to date.
"""
