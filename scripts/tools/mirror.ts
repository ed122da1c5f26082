import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { run } from './run.ts';

/** The address of the Debian archive that this machine's own apt uses. */
export async function findMirror(): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8');
  const codename = /^VERSION_CODENAME=(.*)$/m.exec(release)?.[1];
  const format = '$(RELEASE) $(COMPONENT) $(REPO_URI)';
  const list = async () => {
    const output = await run('apt-get', ['indextargets', '--format', format]);
    const rows = output.split('\n').map(line => line.split(' '));
    return rows.find(([suite, component]) => suite === codename && component === 'main')?.[2];
  };
  const mirror = await list();
  if (mirror === undefined || !existsSync('/usr/share/keyrings/debian-archive-keyring.gpg')) {
    throw new Error('This machine has no Debian archive in its apt sources');
  }
  return mirror;
}

/** The proxy that this machine's apt uses; debootstrap reads it from the environment. */
export async function findProxy(): Promise<string | undefined> {
  const proxy = await run('apt-config', ['dump', '--format', '%v', 'Acquire::http::Proxy']);
  return proxy.trim() || undefined;
}
