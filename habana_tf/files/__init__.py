"""Files and texts that come from elsewhere: which files are believed, and how what is in them is shown."""
