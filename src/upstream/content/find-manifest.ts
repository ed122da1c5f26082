import type { Access } from '../access.ts';
import type { Head, RegistryClient } from '../registry-client.ts';

/**
 * Resolves a tag or digest to its current manifest. Where HEAD does not report it, requests the manifest itself. A
 * missing right or a missing manifest always throws the {@link Fault} that says so.
 */
export async function findManifest(
  registry: Pick<RegistryClient, 'headManifest' | 'getManifest'>,
  access: Access,
  reference: string,
): Promise<Head> {
  const head = await registry.headManifest(access, reference);
  if (head) return head;
  const { digest, mediaType } = await registry.getManifest(access, reference);
  return { digest, mediaType };
}
