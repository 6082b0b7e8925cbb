"""What trains the agent: the supervised start and PPO on the tokens it sampled."""
