import { linkerFlags, programs } from './buildkit-go.ts';
import { compilerRoot } from './compiler-root.ts';

// Docker's source package contains the source of BuildKit, including the daemon.
const sourcePackage = 'docker.io';

/** Compiles the BuildKit in Debian's Docker package, with libraries from Debian packages. */
export async function buildFromDebian(result: string, scratch: string): Promise<void> {
  const root = await compilerRoot(scratch, ['source']);
  await root.run('apt-get', 'install', '-y', 'dpkg-dev');
  const version = await unpackSource(root.run);
  await root.run('apt-get', 'build-dep', '--arch-only', '-y', `${sourcePackage}=${version}`);
  console.log(`Compiling the BuildKit of ${sourcePackage} ${version}`);
  await root.run('sh', '-c', compileScript, 'sh', linkerFlags(''), ...programs);
  await root.fetch('/result', result);
}

/** Unpacks the newest version that the archive contains: mirrors delete files before they update their lists. */
async function unpackSource(
  run: (command: string, ...args: string[]) => Promise<string>,
): Promise<string> {
  const list = await run('apt-cache', 'showsrc', '--only-source', sourcePackage);
  const versions = [...list.matchAll(/^Version: (.*)$/gm)].map(([, version = '']) => version);
  const script =
    'rm -rf /source && mkdir /source && cd /source && apt-get source --only-source "$0"';
  let failure: unknown = new Error(`Debian has no source package ${sourcePackage}`);
  for (const version of versions.reverse()) {
    try {
      await run('sh', '-c', script, `${sourcePackage}=${version}`);
      return version;
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

// Debian's libraries are not modules: everything is in one tree, as in older versions of Go. containerd's own worker is
// left out, because Debian lacks one of its libraries.
const compileScript = `
set -e
cd /source/*/
source=$PWD
version=$(sed -n 's|.*github.com/moby/buildkit \\(v[0-9.]*\\).*|\\1|p' engine/vendor.mod | head -n 1)
flags=$1$version
shift
export GOPATH=/gopath:/usr/share/gocode GO111MODULE=off CGO_ENABLED=0 GOTOOLCHAIN=local
mkdir -p /gopath/src/github.com/moby /gopath/src/github.com/docker
ln -s "$source/buildkit" /gopath/src/github.com/moby/buildkit
ln -s "$source/engine" /gopath/src/github.com/docker/docker
ln -s "$source/cli" /gopath/src/github.com/docker/cli
cd /gopath/src/github.com/moby/buildkit
for program; do
  nice -n 19 go build -tags no_containerd_worker -trimpath -buildvcs=false -ldflags "$flags" \\
    -o /result/ "./cmd/$program"
done
`;
