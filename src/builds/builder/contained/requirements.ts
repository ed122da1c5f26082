import { findProgram } from '../own/find-program.ts';

/** The commands that contain a builder, each with its Debian package. */
const packages = {
  unshare: 'util-linux',
  nsenter: 'util-linux',
  flock: 'util-linux',
  losetup: 'mount',
  mount: 'mount',
  'mkfs.ext4': 'e2fsprogs',
  e2fsck: 'e2fsprogs',
  ip: 'iproute2',
  nft: 'nftables',
  slirp4netns: 'slirp4netns',
  runc: 'runc',
} as const;

/**
 * Returns why this machine cannot give a builder its own network and limits, with the packages to install; undefined if
 * it can.
 *
 * @param path folders in which programs are looked up, in the format of the variable PATH
 */
export function obstacleToContainment(path: string): string | undefined {
  if (process.platform !== 'linux') return 'that requires Linux';
  if (process.getuid?.() !== 0) return 'that requires root';
  const missing = Object.entries(packages).filter(
    ([name]) => findProgram(name, path) === undefined,
  );
  if (missing.length === 0) return undefined;
  const names = [...new Set(missing.map(([, name]) => name))].join(' ');
  const commands = missing.map(([name]) => name).join(', ');
  return `${commands} ${missing.length === 1 ? 'is' : 'are'} missing: install with 'apt-get install ${names}'`;
}
