/** Creates the keys that all replicas share, and the bucket, unless they exist. Runs in the image of Sluice, as root. */
const { randomBytes } = require('node:crypto');
const { chownSync, existsSync, renameSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { join } = require('node:path');

const { CreateBucketCommand, HeadBucketCommand, S3Client } =
  createRequire('/sluice/package.json')('@aws-sdk/client-s3');

const folder = '/etc/sluice/keys';
const names = ['secrets.key', 'registry-token.key'];
// The user of the image.
const owner = 1000;

async function setUp() {
  const Bucket = new URL(process.env.SLUICE_CONTENT).host;
  const endpoint = process.env.SLUICE_S3_ENDPOINT;
  const client = new S3Client({ endpoint, forcePathStyle: true });
  const isOld = await client.send(new HeadBucketCommand({ Bucket })).then(
    () => true,
    error => {
      if (error.$metadata?.httpStatusCode === 404) return false;
      throw error;
    },
  );
  const missing = names.filter(name => !existsSync(join(folder, name)));
  // The bucket is created last. New keys could not read what the site has stored.
  if (isOld && missing.length > 0) {
    throw new Error(
      `The bucket '${Bucket}' exists, but ${missing.join(' and ')} of its site is missing in the volume 'keys': ` +
        'restore the volume from the backup',
    );
  }
  for (const name of missing) {
    const path = join(folder, name);
    writeFileSync(`${path}.new`, randomBytes(32), { mode: 0o400, flush: true });
    chownSync(`${path}.new`, owner, owner);
    renameSync(`${path}.new`, path);
  }
  if (!isOld) await client.send(new CreateBucketCommand({ Bucket }));
}

setUp().catch(error => {
  console.error(`Cannot set up the site: ${error.message}`);
  process.exitCode = 1;
});
