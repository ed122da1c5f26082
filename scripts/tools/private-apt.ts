import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './run.ts';

export interface PrivateApt {
  readonly mirror: string;
  readonly suite: string;
  /** Default: those of this machine. */
  readonly architectures?: readonly string[];
}

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/**
 * Creates an apt in the folder with its own lists, cache and sources. It knows no installed package, and its lists are
 * downloaded. Returns the environment in which apt's programs use it.
 */
export async function privateApt(
  folder: string,
  { mirror, suite, architectures = [] }: PrivateApt,
): Promise<Record<string, string>> {
  for (const name of ['lists/partial', 'cache/archives/partial']) {
    await mkdir(join(folder, name), { recursive: true });
  }
  const choice = architectures.length > 0 ? `arch=${architectures} ` : '';
  const source = `deb [${choice}signed-by=${keyring}] ${mirror} ${suite} main\n`;
  await writeFile(join(folder, 'sources.list'), source);
  await writeFile(join(folder, 'status'), '');
  const settings = [
    `Dir::Etc::sourcelist "${join(folder, 'sources.list')}";`,
    'Dir::Etc::sourceparts "/dev/null";',
    `Dir::State::lists "${join(folder, 'lists')}";`,
    `Dir::State::status "${join(folder, 'status')}";`,
    `Dir::Cache "${join(folder, 'cache')}";`,
    ...architectures.map(name => `APT::Architectures:: "${name}";`),
    'Acquire::Languages "none";',
    // The archive's snapshot on a mirror may be past its validity, and the clock may be wrong.
    'Acquire::Check-Valid-Until "false";',
    'Acquire::Check-Date "false";',
    'APT::Install-Recommends "false";',
    'APT::Sandbox::User "root";',
  ];
  const config = join(folder, 'apt.conf');
  await writeFile(config, `${settings.join('\n')}\n`);
  const apt = { APT_CONFIG: config };
  await run('apt-get', ['update'], apt);
  return apt;
}
