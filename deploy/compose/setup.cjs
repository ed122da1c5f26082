/**
 * Creates the keys that all replicas share, and the bucket, unless they exist, and has the kernel write the files of the
 * object store at once. Runs in the image of Sluice, as root.
 */
const { spawnSync } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { chownSync, existsSync, mkdirSync, renameSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

const folder = '/etc/sluice/keys';
const store = '/store';
const names = ['secrets.key', 'registry-token.key'];
// The user of the image.
const owner = 1000;

/**
 * Has the kernel write each change in a directory to the disk before it is confirmed: the object store does not flush
 * files, and would lose content that a client was told is stored. New files and folders inherit that. Throws where the file system
 * cannot do it.
 */
function makeSynchronous(path) {
  const flags = spawnSync('lsattr', ['-d', path], { encoding: 'utf8' });
  if (flags.status === 0 && flags.stdout.split(' ')[0].includes('S')) return;
  const { status, stderr, error } = spawnSync('chattr', ['-R', '+S', path], { encoding: 'utf8' });
  if (status === 0) return;
  throw new Error(
    `the file system of the volume 'store' cannot write files at once (${(error?.message ?? stderr).trim().split('\n')[0]}). ` +
      'A power cut would lose content that was stored. Use ext4, XFS or Btrfs for the volumes of Docker; to accept the loss, ' +
      'set SLUICE_STORE_SYNC=off in .env',
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
  if (!isOld) mkdirSync(join(store, bucket));
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
