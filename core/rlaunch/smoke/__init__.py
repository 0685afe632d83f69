"""The toy trainer: GRPO on Ray, small enough for a laptop, real enough to prove a cluster.

It takes the arguments that SkyRL takes, reads its data from where every node was told to stage it,
moves weights through Ray's object store, computes its rewards on all nodes, writes checkpoints and
trials where the run keeps them, and prints the lines that a diagnosis looks for. Its interpreter
brings ray and numpy; everything else is the standard library, so that it travels as one zipapp.
"""
