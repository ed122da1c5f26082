import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CondaPackage, nativeSubdir, packPackage } from './conda-package.ts';

/** Channels of Conda on a free port of 127.0.0.1. */
export interface CondaChannels extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`; a channel is below it by its name. */
  readonly url: string;
  /** The section `channels` of a configuration that knows them by their names. */
  readonly settings: Readonly<Record<string, object>>;
  /** Paths that were requested so far. */
  readonly requests: string[];
  /** Every file by its path; added entries are served, pages under paths that end in `/`. */
  readonly files: Map<string, Uint8Array>;
  /** Files of which the second half waits for something, by their paths. */
  readonly held: Map<string, Promise<void>>;
  stop(): Promise<void>;
}

/** Packs the packages of each channel, and serves them with a `repodata.json` for each subdirectory. */
export async function startCondaChannels(
  channels: Readonly<Record<string, readonly CondaPackage[]>>,
): Promise<CondaChannels> {
  const files = new Map<string, Uint8Array>();
  for (const [channel, packages] of Object.entries(channels)) {
    await fill(files, channel, packages);
  }
  const requests: string[] = [];
  const held = new Map<string, Promise<void>>();
  const server = createServer((request, response) => {
    const path = decodeURI(request.url ?? '');
    requests.push(path);
    const content = files.get(path);
    const type = path.endsWith('/') ? 'text/html' : 'application/octet-stream';
    if (content === undefined) response.writeHead(404).end();
    else {
      response.writeHead(200, { 'content-type': type, 'content-length': content.length });
      const half = content.length / 2;
      const free = held.get(path);
      if (!free) response.end(content);
      else {
        response.write(content.subarray(0, half));
        void free.then(() => response.end(content.subarray(half)));
      }
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.closeAllConnections();
    server.close();
  };
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const settings = channelSettings(url, Object.keys(channels));
  return { url, settings, requests, files, held, stop, [Symbol.asyncDispose]: stop };
}

/** Returns the section `channels` of a configuration, for channels below an address by their names. */
export function channelSettings(
  url: string,
  names: readonly string[],
): Readonly<Record<string, object>> {
  return Object.fromEntries(
    names.map(name => [name, { url: `${url}/${name}`, allowPrivateAddress: true }]),
  );
}

async function fill(
  files: Map<string, Uint8Array>,
  channel: string,
  packages: readonly CondaPackage[],
): Promise<void> {
  const packed = await Promise.all(packages.map(packPackage));
  for (const subdir of new Set([nativeSubdir, 'noarch', ...packed.map(one => one.subdir)])) {
    const here = packed.filter(one => one.subdir === subdir);
    for (const { fileName, bytes } of here) files.set(`/${channel}/${subdir}/${fileName}`, bytes);
    const recordsOf = (suffix: string) =>
      Object.fromEntries(
        here
          .filter(({ fileName }) => fileName.endsWith(suffix))
          .map(({ fileName, record }) => [fileName, record]),
      );
    const repodata = {
      info: { subdir },
      packages: recordsOf('.tar.bz2'),
      'packages.conda': recordsOf('.conda'),
      repodata_version: 1,
    };
    files.set(`/${channel}/${subdir}/repodata.json`, Buffer.from(JSON.stringify(repodata)));
  }
}
