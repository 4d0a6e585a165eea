"""Makes what is given to others: archives of the sources, wheels, their checks, and the notes of a release."""
