import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Certificates, makeCertificates } from './certificates.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

const exec = promisify(execFile);

/** A server of git repositories at https, with a certificate of its own authority. */
export interface GitServer {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  readonly certificates: Certificates;
  /** Makes a repository with a branch `main` of one commit, and the tag `v1` with a message. Returns the commit. */
  add(name: string, files: Readonly<Record<string, string>>): Promise<string>;
  /** Runs git in the folder of a repository. Returns its output. */
  run(name: string, ...args: string[]): Promise<string>;
  /** The same, and publishes what it has changed. */
  git(name: string, ...args: string[]): Promise<string>;
  /** Writes files into the folder of a repository, and commits them. Returns the commit. */
  commit(name: string, files: Readonly<Record<string, string>>): Promise<string>;
  /** Paths that clients have asked for. */
  readonly asked: readonly string[];
  stop(): Promise<void>;
}

export async function startGitServer({ canFilter = true } = {}): Promise<GitServer> {
  const git = requireCommand('git');
  const directory = await makeTempDir('git-server');
  const certificates = await makeCertificates(directory.join('tls'));
  const asked: string[] = [];
  const tls = {
    cert: await readFile(certificates.certificate),
    key: await readFile(certificates.key),
  };
  const server = createServer(tls, (request, response) => {
    const { pathname, search } = new URL(request.url ?? '', 'https://host');
    asked.push(pathname);
    const cgi = spawn(git, ['http-backend'], {
      env: {
        GIT_PROJECT_ROOT: directory.path,
        GIT_HTTP_EXPORT_ALL: '1',
        GIT_CONFIG_COUNT: '2',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
        // As the large public servers have it.
        GIT_CONFIG_KEY_1: 'uploadpack.allowFilter',
        GIT_CONFIG_VALUE_1: String(canFilter),
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method ?? 'GET',
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    });
    cgi.stdin.on('error', () => {});
    request.pipe(cgi.stdin);
    const parts: Buffer[] = [];
    cgi.stdout.on('data', part => parts.push(part));
    cgi.once('close', () => {
      const whole = Buffer.concat(parts);
      const end = whole.indexOf('\r\n\r\n');
      const head = whole.toString('latin1', 0, end).split('\r\n');
      const headers = head.map(line => line.split(/: (.*)/s, 2) as [string, string]);
      const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200';
      const others = headers.filter(([name]) => name !== 'Status');
      response.writeHead(Number.parseInt(status, 10), Object.fromEntries(others));
      response.end(whole.subarray(end + 4));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const env = {
    ...{ HOME: directory.path, GIT_CONFIG_NOSYSTEM: '1' },
    ...{
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@test',
      GIT_AUTHOR_DATE: '2026-01-01T00:00:00Z',
    },
    ...{ GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@test' },
    GIT_COMMITTER_DATE: '2026-01-01T00:00:00Z',
  };
  const workOf = (name: string) => directory.join(`work-${name}`);
  const run = async (name: string, ...args: string[]) =>
    (await exec(git, ['-C', workOf(name), ...args], { env })).stdout.trim();
  const write = async (name: string, files: Readonly<Record<string, string>>) => {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(workOf(name), path)), { recursive: true });
      await writeFile(join(workOf(name), path), text);
    }
  };
  const publishing: Pick<GitServer, 'git' | 'commit'> = {
    async git(name, ...args) {
      const output = await run(name, ...args);
      await run(name, 'push', '--quiet', '--mirror', directory.join(`${name}.git`));
      return output;
    },
    async commit(name, files) {
      await write(name, files);
      await run(name, 'add', '--', ...Object.keys(files));
      await publishing.git(name, 'commit', '--quiet', '--message', 'more');
      return run(name, 'rev-parse', 'HEAD');
    },
  };
  return {
    ...publishing,
    run,
    host: `127.0.0.1:${port}`,
    certificates,
    asked,
    async add(name, files) {
      await write(name, files);
      await run(name, 'init', '--quiet', '--initial-branch', 'main');
      await run(name, 'add', '.');
      await run(name, 'commit', '--quiet', '--message', 'first');
      await run(name, 'tag', '--annotate', '--message', 'first', 'v1');
      await exec(git, ['clone', '--quiet', '--bare', workOf(name), directory.join(`${name}.git`)], {
        env,
      });
      return run(name, 'rev-parse', 'HEAD');
    },
    async stop() {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
      await directory.remove();
    },
  };
}
