import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startRegistry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { bytesPerSecond, requestsPerSecond } from './load.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const run = promisify(execFile);
const rounds = 5;
const blobBytes = 1024 * 1024 * 1024;

/** A registry to push to. */
interface Target {
  readonly repository: string;
  readonly authorization: string | undefined;
}

/** (f) Pushes to hosted repositories and pulls from them, compared with docker-registry on the same disk. */
export async function hosted(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  await using sluice = await startMeasuredSluice({ config: { accounts: { bench: 'secret' } } });
  const authorization = `Basic ${Buffer.from('bench:secret').toString('base64')}`;
  const ours = { repository: `${sluice.url}/v2/public/bench`, authorization };
  const theirs = { repository: `${registry.url}/v2/public/bench`, authorization: undefined };

  const file = join(directory.path, 'blob');
  await makeFile(file);
  let digest = '';
  const push = async (target: Target) => {
    digest = await stamp(file);
    // One side must not wait for the other's pending writes.
    await run('sync');
    return pushFile(file, target, digest);
  };
  const pushes = await interleave({ ours: () => push(ours), theirs: () => push(theirs) }, rounds);

  await pushFile(file, ours, digest);
  const pulls = await interleave(
    {
      ours: () => bytesPerSecond(`${ours.repository}/blobs/${digest}`, 1),
      theirs: () => bytesPerSecond(`${theirs.repository}/blobs/${digest}`, 1),
    },
    rounds,
  );

  const manifests = await interleave(
    {
      ours: () => pushManifests(directory.path, ours),
      theirs: () => pushManifests(directory.path, theirs),
    },
    rounds,
  );

  const speed = (figures: readonly number[]) => `${Math.round(median(figures) / 1e6)} MB/s`;
  const rate = (figures: readonly number[]) => `${Math.round(median(figures))}/s`;
  const rows = [
    ['Push of a 1 GiB blob', pushes, speed],
    ['Pull of it', pulls, speed],
    ['Manifests pushed', manifests, rate],
  ] as const;
  return [
    {
      letter: 'f',
      title: 'Hosted repositories, on the same disk',
      rows: rows.map(([what, figures, format]) => ({
        what: `${what}: Sluice : docker-registry`,
        figure: ratio(figures.ours, figures.theirs).toFixed(2),
        aim: '1.0',
        medians: `${format(figures.ours)} : ${format(figures.theirs)}`,
      })),
    },
  ];
}

async function makeFile(path: string): Promise<void> {
  const file = await open(path, 'w');
  const piece = randomBytes(1024 * 1024);
  for (let at = 0; at < blobBytes; at += piece.length) {
    piece.writeUInt32LE(at, 0);
    await file.write(piece);
  }
  await file.close();
}

/** Makes the content of the file unique and returns its digest. */
async function stamp(path: string): Promise<string> {
  const file = await open(path, 'r+');
  await file.write(randomBytes(16), 0, 16, 0);
  await file.close();
  const hash = createHash('sha256');
  for await (const bytes of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    hash.update(bytes as Buffer);
  }
  return `sha256:${hash.digest('hex')}`;
}

/** Returns bytes per second. */
async function pushFile(
  file: string,
  { repository, authorization }: Target,
  digest: string,
): Promise<number> {
  const script = new URL('push.ts', import.meta.url).pathname;
  const args = [script, file, repository, digest];
  if (authorization !== undefined) args.push(authorization);
  const { stdout } = await run(process.execPath, args);
  const { bytes, seconds } = JSON.parse(stdout) as { bytes: number; seconds: number };
  return bytes / seconds;
}

const manifestType = 'application/vnd.oci.image.manifest.v1+json';

/** Pushes unique manifests, each under its own tag. Returns manifests per second. */
async function pushManifests(directory: string, target: Target): Promise<number> {
  const config = join(directory, 'config');
  await writeFile(config, '{}');
  const digest = `sha256:${createHash('sha256').update('{}').digest('hex')}`;
  await pushFile(config, target, digest);
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: manifestType,
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest, size: 2 },
    layers: [],
    annotations: { number: 'NUMBER' },
  });
  const script = join(directory, 'put.lua');
  const path = new URL(target.repository).pathname;
  const authorization = target.authorization
    ? `wrk.headers["Authorization"] = "${target.authorization}"`
    : '';
  await writeFile(
    script,
    `wrk.headers["Content-Type"] = "${manifestType}"
${authorization}
local run = "${randomBytes(4).toString('hex')}"
local count = 0
request = function()
  count = count + 1
  local body = string.gsub([[${manifest}]], "NUMBER", run .. count)
  return wrk.format("PUT", "${path}/manifests/" .. run .. "-" .. count, nil, body)
end
`,
  );
  return requestsPerSecond(target.repository, { script });
}
