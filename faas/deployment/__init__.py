"""Functions put where others run them: what of this framework goes into images and onto clusters."""
