import type { BuilderWorker, BuildkitClient, CallOptions } from '../../buildkit/index.ts';

/**
 * Returns whether a builder can push what it builds. The builder in a Docker engine with the classic image store
 * cannot: it has no `image` exporter. As in `docker buildx`, the properties of its workers identify it. Rejects with a
 * `BuildError` when the builder does not answer.
 */
export async function canPush(client: BuildkitClient, options: CallOptions): Promise<boolean> {
  if (!isInDocker(client.address)) {
    await client.info(options);
    return true;
  }
  const workers = await client.listWorkers(options);
  return workers.some(hasSnapshotter);
}

/** Returns whether the address is that of the builder in a Docker engine. */
export function isInDocker(address: string): boolean {
  return address.startsWith('docker+');
}

function hasSnapshotter({ labels }: BuilderWorker): boolean {
  return 'org.mobyproject.buildkit.worker.snapshotter' in labels;
}
