import { existsSync } from 'node:fs';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { hostPackages } from '../../test/world/tools.ts';
import { run } from './run.ts';

const policyPath = '/usr/sbin/policy-rc.d';

let consent: string | undefined;

/**
 * From now on {@link installOnHost} installs nothing, and throws what to run.
 *
 * @param command the command that installs packages after all
 */
export function installOnlyWith(command: string): void {
  consent = command;
}

/** Installs the Debian packages with these commands. Starts and enables no service. */
export async function installOnHost(commands: readonly string[]): Promise<void> {
  const packages = commands.map(name => hostPackages[name]).filter(name => name !== undefined);
  if (packages.length === 0) return;
  if (consent !== undefined) {
    throw new Error(
      `This machine lacks ${commands.join(', ')}: run 'apt-get install -y --no-install-recommends ${packages.join(' ')}' as root, or let '${consent}' do it`,
    );
  }
  console.log(`Installing ${packages.join(', ')}`);
  // An existing policy of the machine is kept: services are disabled below in any case.
  const isOwnPolicy = !existsSync(policyPath);
  if (isOwnPolicy) {
    await writeFile(policyPath, '#!/bin/sh\nexit 101\n');
    await chmod(policyPath, 0o755);
  }
  try {
    await install(packages);
  } finally {
    if (isOwnPolicy) await rm(policyPath);
  }
  // An existing service of the machine, such as the one for logins, is kept.
  await disableServices(packages.map(name => services[name]).filter(name => name !== undefined));
}

/** The services of packages, by their names. */
const services: Readonly<Record<string, string>> = {
  'docker-registry': 'docker-registry',
  'nginx-light': 'nginx',
  postgresql: 'postgresql',
  'openssh-server': 'ssh',
  prometheus: 'prometheus',
};

async function install(packages: readonly string[]): Promise<void> {
  // Another process may use dpkg, such as automatic upgrades.
  const patience = ['-o', 'DPkg::Lock::Timeout=600'];
  const install = ['install', '-y', '--no-install-recommends', ...patience, ...packages];
  try {
    await run('apt-get', install);
  } catch {
    // There are no package lists yet, or they name versions that no longer exist.
    await run('apt-get', ['update']);
    await run('apt-get', install);
  }
}

async function disableServices(names: readonly string[]): Promise<void> {
  if (!existsSync('/run/systemd/system')) return;
  for (const name of names) await run('systemctl', ['disable', '--now', name]);
}
