import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  appendFile,
  chmod,
  copyFile,
  cp,
  mkdir,
  readFile,
  realpath,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findProxy } from '../../scripts/tools/mirror.ts';
import { imageOf } from '../corpus/image.ts';
import { Pusher, type PushTarget } from '../corpus/push.ts';
import { type FileLayer, keptLayer, writeFolderLayer } from '../sif/distribution-layer.ts';
import { copyPackages } from './debian-files.ts';
import { packagesOf, textsOf } from './run-folder.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

// In addition to Debian's essential packages: those of Docker's image that builds use.
const packages = ['apt', 'libstdc++6', 'mawk'];

/**
 * Makes an image like Docker's `node:24-bookworm-slim` and pushes it: Debian's own files, this project's Node, and the
 * machine's npm. apt and npm reach the network as on this machine, without any token.
 */
export async function pushNodeImage(target: PushTarget, name: string, tag: string): Promise<void> {
  const layer = await nodeLayer();
  const pusher = await Pusher.open(target, name);
  const run = { Env: [`PATH=${searchPath}`], Cmd: ['node'] };
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
  await pusher.push(imageOf({ layers: [layer], architecture, run }), tag);
  await pusher.close();
}

async function nodeLayer(): Promise<FileLayer> {
  const npm = join(await npmSays('root', '--global'), 'npm');
  const npmVersion = await readFile(join(npm, 'package.json'), 'utf8');
  const settings = await npmSettings();
  const proxy = await findProxy();
  const texts = textsOf('node-image.ts', 'debian-files.ts');
  const machine = [process.version, npmVersion, JSON.stringify(settings), proxy ?? ''];
  const sources = [...machine, packagesOf('bookworm'), ...texts];
  return keptLayer('node', sources, async path => {
    await using files = await makeTempDir('node-image');
    await copyDebian(files.path, proxy);
    await copyNode(files.path, npm);
    await configureNpm(files.path, settings);
    return await writeFolderLayer(files.path, path);
  });
}

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Debian's essential packages and apt, which goes the way of this machine. */
async function copyDebian(into: string, proxy: string | undefined): Promise<void> {
  await copyPackages(into, { suite: 'bookworm', packages, besides, essential: true });
  if (proxy === undefined) return;
  await writeFile(join(into, 'etc/apt/apt.conf.d/95proxy'), `Acquire::http::Proxy "${proxy}";\n`);
}

// Files that no package contains, because its installation creates them.
const besides = [
  ...['etc/passwd', 'etc/group', 'etc/shadow', 'etc/gshadow', 'etc/debian_version'],
  ...['etc/alternatives', 'etc/alternatives/awk', 'usr/bin/awk', 'etc/apt/sources.list'],
  'etc/apt/apt.conf.d/90tools',
];

async function copyNode(into: string, npm: string): Promise<void> {
  const local = join(into, 'usr/local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await copyFile(await realpath(process.execPath), join(local, 'bin/node'));
  await chmod(join(local, 'bin/node'), 0o755);
  await cp(npm, join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'));
  await chmod(join(local, 'lib/node_modules/npm/bin/npm-cli.js'), 0o755);
  await appendFile(join(into, 'etc/passwd'), 'node:x:1000:1000::/home/node:/bin/bash\n');
  await appendFile(join(into, 'etc/group'), 'node:x:1000:\n');
}

const certificates = '/etc/ssl/certs/ca-certificates.crt';

interface NpmSettings {
  /** The lines of its file, such as `registry=https://...`. */
  readonly lines: readonly string[];
  /** The certificates that it trusts. */
  readonly authorities: string | undefined;
}

/** How this machine reaches the registry of packages: addresses and authorities, no tokens. */
async function npmSettings(): Promise<NpmSettings> {
  const lines: string[] = [];
  for (const key of ['registry', 'proxy', 'https-proxy', 'noproxy', 'strict-ssl']) {
    const value = await npmSays('config', 'get', key);
    if (!['', 'null', 'undefined'].includes(value)) lines.push(`${key}=${value}`);
  }
  const configured = await npmSays('config', 'get', 'cafile');
  const file = [configured, process.env.NODE_EXTRA_CA_CERTS, certificates].find(
    file => file !== undefined && file !== 'null' && existsSync(file),
  );
  if (file === undefined) return { lines, authorities: undefined };
  lines.push(`cafile=${certificates}`);
  return { lines, authorities: await readFile(file, 'utf8') };
}

async function configureNpm(into: string, { lines, authorities }: NpmSettings): Promise<void> {
  if (authorities !== undefined) {
    await mkdir(join(into, certificates, '..'), { recursive: true });
    await writeFile(join(into, certificates), authorities);
  }
  await mkdir(join(into, 'usr/local/etc'), { recursive: true });
  await writeFile(join(into, 'usr/local/etc/npmrc'), `${lines.join('\n')}\n`);
}

async function npmSays(...args: readonly string[]): Promise<string> {
  // Outside the project, whose own settings are none of the machine's.
  const options = { cwd: '/' };
  const { stdout } = await promisify(execFile)(requireCommand('npm'), [...args], options);
  return stdout.trim();
}
