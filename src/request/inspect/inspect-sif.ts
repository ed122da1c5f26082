import { readSif } from '../../images/sif/format/read-sif.ts';
import type { Descriptor } from '../../oci/descriptor.ts';
import type { JsonObject } from '../../oci/json.ts';
import type { Access } from '../../upstream/access.ts';
import { readPart } from '../../upstream/exchange/answer.ts';
import type { RegistryClient } from '../../upstream/registry-client.ts';

/** Returns the metadata of a SIF file in a registry. Fetches only the part before its file system. */
export async function describeSif(
  registry: RegistryClient,
  access: Access,
  { digest, size }: Descriptor,
): Promise<{ about: JsonObject; config: JsonObject }> {
  const sif = await readSif(async (offset, length) => {
    const last = Math.min(offset + length, size) - 1;
    if (last < offset) return Buffer.alloc(0);
    const opened = await registry.openBlob(access, digest, { offset, last, redirects: 'follow' });
    if (opened.kind === 'redirect') throw new Error('a redirect was not followed');
    // A registry without range support starts at the beginning.
    return readPart(opened.answer.body, offset - opened.offset, length);
  });
  const { version, architecture, createdAt, id, definition, metadata, ociConfig } = sif;
  const created = new Date(createdAt).toISOString();
  return {
    about: {
      version,
      id,
      created,
      ...(definition === undefined ? {} : { definition }),
      ...(metadata === undefined ? {} : { metadata }),
    },
    config: { architecture: architecture ?? '', os: 'linux', created, config: ociConfig ?? {} },
  };
}
