import type { Descriptor } from '../../oci/index.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { Access } from '../access.ts';
import type { RegistryClient } from '../registry-client.ts';
import { resumingSource } from './resuming-source.ts';

/** Opens a blob from its first to its last byte, and resumes when the registry breaks off. Throws a `Fault`. */
export async function openWhole(
  registry: RegistryClient,
  access: Access,
  { digest, size }: Pick<Descriptor, 'digest' | 'size'>,
  signal?: AbortSignal,
): Promise<ByteSource> {
  const openAt = async (offset: number) => {
    const opened = await registry.openBlob(access, digest, {
      offset,
      size,
      signal,
      redirects: 'follow',
    });
    if (opened.kind === 'redirect') throw new Error('a redirect was not followed');
    return { source: opened.response.body, offset: opened.offset };
  };
  return resumingSource({ first: await openAt(0), start: 0, end: size - 1, reopen: openAt });
}
