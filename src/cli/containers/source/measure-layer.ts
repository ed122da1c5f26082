import { gunzipSync } from 'node:zlib';
import type { InjectedLayer } from '../../../images/augment/index.ts';
import { digestOf } from '../../../oci/digest.ts';
import type { SubmittedLayer } from '../../../request/index.ts';
import { architectureIn } from '../../../request/without-server.ts';
import { CommandError } from '../../command/command.ts';
import { useProxies } from '../../server/use-proxies.ts';

/**
 * Returns the digests and the size of a layer, as the server will compute them. A layer with a URL is downloaded. Throws
 * {@link CommandError}.
 */
export async function measureLayer({ location }: SubmittedLayer): Promise<InjectedLayer> {
  const isUrl = /^https?:/i.test(location);
  const gzip = isUrl ? await fetched(location) : inlined(location);
  const architecture = isUrl ? architectureIn(location) : undefined;
  return {
    gzipDigest: digestOf(gzip),
    gzipSize: gzip.length,
    tarDigest: digestOf(unpacked(gzip, isUrl ? location : 'a layer')),
    ...(architecture === undefined ? {} : { architecture }),
  };
}

async function fetched(url: string): Promise<Buffer> {
  useProxies();
  try {
    const response = await fetch(url);
    if (response.ok) return Buffer.from(await response.arrayBuffer());
    throw new Error(`status ${response.status}`);
  } catch (error) {
    throw new CommandError(`Cannot download ${url}: ${(error as Error).message}`);
  }
}

function inlined(location: string): Buffer {
  const [, base64] = /^data:(?:[^,;]*;base64,)?(.*)$/s.exec(location) ?? [];
  if (base64 !== undefined) return Buffer.from(base64, 'base64');
  throw new CommandError(
    "The location of a layer is neither an http(s) URL nor 'data:' followed by base64: specify a directory or a file with --layer to send it",
    2,
  );
}

function unpacked(gzip: Buffer, name: string): Buffer {
  try {
    return gunzipSync(gzip);
  } catch (error) {
    throw new CommandError(
      `${name} is not a gzip file (${(error as Error).message}): pack it with 'tar -czf'`,
      2,
    );
  }
}
