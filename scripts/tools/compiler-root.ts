import { existsSync } from 'node:fs';
import { appendFile, copyFile, cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findCommand } from '../../test/world/tools.ts';
import { installOnHost } from './host.ts';
import { findMirror, findProxy } from './mirror.ts';
import { bootstrap, inside } from './root.ts';

/** A separate small Debian system for compiling; the result is copied out of it. */
export interface CompilerRoot {
  /** Name of the suite of newer packages. */
  readonly backports: string;
  /** Runs a program in the system. Returns its output. */
  run(command: string, ...args: string[]): Promise<string>;
  /** Trusts the certificate authorities that the machine trusts. */
  trustAsHost(): Promise<void>;
  /** Copies a folder out of the system. */
  fetch(folder: string, target: string): Promise<void>;
}

const suite = 'trixie';
const backports = `${suite}-backports`;
const certificates = 'etc/ssl/certs/ca-certificates.crt';

// Variables that specify how Go and others reach the network. All other variables describe the machine itself.
const inherited =
  /^(?:GOPROXY|GOSUMDB|GONOSUMDB|GONOPROXY|GOPRIVATE|GOINSECURE|LC_ALL|DEBIAN_FRONTEND|(?:https?|no)_proxy)$/i;

/** Creates such a system in the folder, with `/result` for the output. */
export async function compilerRoot(
  scratch: string,
  extras: readonly ('backports' | 'source')[],
): Promise<CompilerRoot> {
  if (!findCommand('debootstrap')) await installOnHost(['debootstrap']);
  const mirror = await findMirror();
  const proxy = await findProxy();
  if (proxy !== undefined) process.env.http_proxy ??= proxy;
  const root = join(scratch, 'root');
  console.log(`Making a ${suite} root to compile in`);
  await mkdir(root);
  await bootstrap(suite, root, mirror);
  await mkdir(join(root, 'result'));
  for (const name of ['hosts', 'resolv.conf']) {
    if (existsSync(`/etc/${name}`)) await copyFile(`/etc/${name}`, join(root, 'etc', name));
  }
  const lines = {
    backports: `deb ${mirror} ${backports} main\n`,
    source: `deb-src ${mirror} ${suite} main\n`,
  };
  const sources = extras.map(extra => lines[extra]).join('');
  await appendFile(join(root, 'etc/apt/sources.list'), sources);
  const runInside = (command: string, ...args: string[]) => {
    const kept = Object.entries(process.env).filter(([name]) => inherited.test(name));
    const variables = kept.map(([name, value]) => `${name}=${value}`);
    const own = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'CGO_ENABLED=0'];
    return inside(root, 'env', '-i', ...variables, ...own, command, ...args);
  };
  await runInside('apt-get', 'update');
  return {
    backports,
    run: runInside,
    async trustAsHost() {
      if (existsSync(`/${certificates}`))
        await copyFile(`/${certificates}`, join(root, certificates));
    },
    fetch: (folder, target) => cp(join(root, folder), target, { recursive: true }),
  };
}
