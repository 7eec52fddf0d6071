"""What should I run? A search over methods, graphs, compressors, local steps and numbers, with equal budgets."""
