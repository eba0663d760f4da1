"""The checkpoints of a job in a bucket: objects, who owns them, blobs and manifests."""
