import type { Access } from '../access.ts';
import type { Head, RegistryClient } from '../registry-client.ts';

/**
 * What a tag or digest stands for now. Where HEAD does not tell, the manifest itself is asked for: who may
 * not have it, or asks for what is not there, always gets the {@link Fault} that says so.
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
