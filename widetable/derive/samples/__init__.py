"""Samples of a training: rows of a table that are given once, when they are complete or when their time has come.

sample_rule      what a caller asks for, as one value            sample_choice   which rows are given, and how
sample_plan      the rule for the columns of a table             sample_feed     the rounds that write them
sample_verdict   when a row is ready                             sample_follower `Table.follow_samples`
"""
