/**
 * Creates the keys that all replicas share, and the bucket, unless they exist, and has the kernel write the files of the
 * object store at once. Runs in the image of Sluice, as root.
 */
const { spawnSync } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} = require('node:fs');
const { join } = require('node:path');

const folder = '/etc/sluice/keys';
const store = '/store';
const names = ['secrets.key', 'registry-token.key'];
// The user of the image.
const owner = 1000;

/** Returns the file system that a path is on: its type, and the options that it works with. */
function fileSystemOf(path) {
  // Such as: 46 27 7:0 / /store rw,relatime shared:1 - xfs /dev/sdb1 rw,wsync,noquota
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  const places = mounts.map(line => {
    const [mount, source = ''] = line.split(' - ');
    const [type = '', , options = ''] = source.split(' ');
    return { point: mount.split(' ')[4] ?? '', type, options: options.split(',') };
  });
  const around = places.filter(({ point }) =>
    `${path}/`.startsWith(point === '/' ? '/' : `${point}/`),
  );
  // Of two mounts at one place, the later one is in use.
  return around.reduce((best, next) => (next.point.length >= best.point.length ? next : best));
}

/**
 * Has the kernel write each change in a directory to the disk before it is confirmed: the object store does not flush
 * files, and would lose content that a client was told is stored. New files and folders inherit that. Throws where the
 * file system does not do it: test/power/object-store-cuts.test.ts cuts the power of those that are accepted.
 */
function makeSynchronous(path) {
  const { type, options } = fileSystemOf(path);
  // XFS and Btrfs accept the mark too, but write the names of files later. XFS writes them at once if it is mounted with
  // `wsync`. A mount with `sync` proves nothing: Btrfs ignores it, and XFS ignores it in a remount.
  if (options.some(option => ['nobarrier', 'barrier=0'].includes(option))) {
    throw unsafe(`${type} that is mounted without barriers, so it does not flush its disk`);
  }
  if (type !== 'ext4' && !(type === 'xfs' && options.includes('wsync'))) {
    throw unsafe(
      type === 'xfs' ? 'XFS that is mounted without wsync' : `a file system of the type ${type}`,
    );
  }
  const flags = spawnSync('lsattr', ['-d', path], { encoding: 'utf8' });
  if (flags.status === 0 && flags.stdout.split(' ')[0].includes('S')) return;
  const { status, stderr, error } = spawnSync('chattr', ['-R', '+S', path], { encoding: 'utf8' });
  if (status !== 0) {
    throw unsafe(
      `${type} that refuses chattr (${(error?.message ?? stderr).trim().split('\n')[0]})`,
    );
  }
}

function unsafe(where) {
  return new Error(
    `the files of the object store are on ${where}. A power cut would lose content that clients were told is stored. ` +
      'Set SLUICE_STORE_DIRECTORY in .env to a directory on ext4, or on XFS that is mounted with wsync ' +
      "(docs/compose.md, 'The disk of the object store'); to accept the loss, set SLUICE_STORE_SYNC=off",
  );
}

function setUp() {
  if (process.env.SLUICE_STORE_SYNC !== 'off') makeSynchronous(store);
  // The store takes each folder for a bucket.
  const bucket = new URL(process.env.SLUICE_CONTENT).host;
  const isOld = existsSync(join(store, bucket));
  const missing = names.filter(name => !existsSync(join(folder, name)));
  // The bucket is created last. New keys could not read what the site has stored.
  if (isOld && missing.length > 0) {
    throw new Error(
      `The bucket '${bucket}' exists, but ${missing.join(' and ')} of its site is missing in the volume 'keys': ` +
        'restore the volume from the backup',
    );
  }
  for (const name of missing) {
    const path = join(folder, name);
    writeFileSync(`${path}.new`, randomBytes(32), { mode: 0o400, flush: true });
    chownSync(`${path}.new`, owner, owner);
    renameSync(`${path}.new`, path);
  }
  if (missing.length > 0) flushFolder(folder);
  if (!isOld) mkdirSync(join(store, bucket));
}

/** Writes the names in a folder to the disk. */
function flushFolder(path) {
  const handle = openSync(path, 'r');
  fsyncSync(handle);
  closeSync(handle);
}

module.exports = { makeSynchronous };

if (require.main === module) {
  try {
    setUp();
  } catch (error) {
    console.error(`Cannot set up the site: ${error.message}`);
    process.exitCode = 1;
  }
}
