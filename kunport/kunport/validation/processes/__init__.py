"""Work in processes of its own: the parent sets limits and reads events, the child announces its stages."""
