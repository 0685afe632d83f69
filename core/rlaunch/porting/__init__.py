"""A recipe of one cluster, rewritten for another: what follows from the two profiles, and nothing else.

Every change has a class and a reason. Mechanical ones follow from the profiles and are made; tuning that
belongs to a cluster's hardware is proposed, and kept as it is unless accepted; what may change the
experiment needs `--accept KEY`, key by key.

    here         what any recipe needs on a cluster, whatever it was written for (a launch makes it too)
    translate    two profiles and a recipe → its body for the other cluster, with every change (pure)
    rewrite      the changes made in the text, in place (pure)
    porter       files in, file out
"""
