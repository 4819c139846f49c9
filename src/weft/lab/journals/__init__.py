"""Journals on disk: read and written, replayed, and asked why a job waited.

Journals of earlier versions stay readable: their words are brought up to date on the way in
(`old_journals.py`), and a field is never renamed.
"""
