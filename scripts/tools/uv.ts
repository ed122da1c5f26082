import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { zipBytes, zipEndIn, zipEntryAt, zipSignatures } from '../../src/archives/zip-records.ts';
import { indexOfPip } from '../../test/world/python-index.ts';
import { uvFolder, uvVersion } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';

/** The wheels of uv by the architecture of this machine. */
const wheels: Readonly<Record<string, { readonly platform: string; readonly sha256: string }>> = {
  x64: {
    platform: 'manylinux_2_17_x86_64.manylinux2014_x86_64',
    sha256: 'd7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19',
  },
  arm64: {
    platform: 'manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64',
    sha256: '5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe',
  },
};

export function hasUv(folder = uvFolder): boolean {
  return existsSync(join(folder, 'uv'));
}

/** Puts uv into a folder: the program of its wheel, from the index that pip uses, checked by its digest. */
export async function fetchUv(folder = uvFolder): Promise<void> {
  await makeFolder(
    { destination: folder, isThere: () => hasUv(folder), doing: `Fetching uv ${uvVersion}` },
    async unfinished => {
      const wheel = await fetchWheel();
      await writeFile(join(unfinished, 'uv'), programIn(wheel), { mode: 0o755 });
      return unfinished;
    },
  );
}

async function fetchWheel(): Promise<Buffer> {
  const wanted = wheels[process.arch];
  if (wanted === undefined) throw new Error(`No wheel of uv is known for ${process.arch}`);
  const fileName = `uv-${uvVersion}-py3-none-${wanted.platform}.whl`;
  const page = `${indexOfPip()}/uv/`;
  const text = (await fetched(page, 'application/vnd.pypi.simple.v1+json, text/html')).toString();
  // In JSON and in HTML alike, the address is a text in double quotes that has the name of the file.
  const address = [...text.matchAll(/"([^"\s]{1,2000})"/g)]
    .map(([, quoted = '']) => quoted)
    .find(quoted => quoted.replace(/#.*$/, '').endsWith(`/${fileName}`));
  if (address === undefined) throw new Error(`${new URL(page).host} does not list ${fileName}`);
  const wheel = await fetched(new URL(address, page).href, '*/*');
  const sha256 = createHash('sha256').update(wheel).digest('hex');
  if (sha256 === wanted.sha256) return wheel;
  throw new Error(`${fileName} has the digest ${sha256}, not ${wanted.sha256}`);
}

async function fetched(url: string, accept: string): Promise<Buffer> {
  const response = await fetch(url, { headers: { accept } });
  if (response.ok) return Buffer.from(await response.arrayBuffer());
  throw new Error(`${new URL(url).host} answered ${response.status} for uv`);
}

/** Returns the program in a wheel whose digest was checked. Source: PKWARE APPNOTE 6.3.9, 4.3. */
function programIn(wheel: Buffer): Buffer {
  const name = `uv-${uvVersion}.data/scripts/uv`;
  let at = zipEndIn(wheel)?.start ?? 0;
  while (wheel.readUInt32LE(at) === zipSignatures.entry) {
    const { method, packedSize, nameLength, offset } = zipEntryAt(wheel, at);
    const nameAt = at + zipBytes.entry;
    if (wheel.toString('utf8', nameAt, nameAt + nameLength) === name) {
      if (wheel.readUInt32LE(offset) !== zipSignatures.local) break;
      const lengths = wheel.readUInt16LE(offset + 26) + wheel.readUInt16LE(offset + 28);
      const content = offset + zipBytes.local + lengths;
      const bytes = wheel.subarray(content, content + packedSize);
      return method === 0 ? bytes : inflateRawSync(bytes);
    }
    at = nameAt + nameLength + wheel.readUInt16LE(at + 30) + wheel.readUInt16LE(at + 32);
  }
  throw new Error(`The wheel of uv has no ${name}`);
}
