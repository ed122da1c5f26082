import { createHash } from 'node:crypto';
import { environmentPrefix, type LayeredPackage } from '../../../conda/index.ts';
import { environmentImage } from '../bases/environment-image.ts';

const folder = '/sluice-scripts';
/** The program that runs the scripts. */
export const programName = 'run.sh';

/**
 * Returns the recipe of a step that runs link scripts.
 *
 * @param isOffline true for a step without a network
 */
export function scriptDockerfile(isOffline: boolean): string {
  const command = JSON.stringify(['/bin/sh', `${folder}/${programName}`]);
  const network = isOffline ? '--network=none ' : '';
  return `FROM ${environmentImage}
USER 0
RUN ${network}--mount=type=bind,target=${folder} ${command}
`;
}

/**
 * Returns the path of the script that runs after a package is linked; undefined for a package without one, and for one with another
 * script, which runs before.
 */
function scriptOf({ package: { name }, linkScripts }: LayeredPackage): string | undefined {
  const own = `bin/.${name.toLowerCase()}-post-link.sh`;
  // That of `info` is a copy.
  const isAlone = linkScripts.every(path => path === own || path === 'info/post-link.sh');
  return isAlone && linkScripts.includes(own) ? own : undefined;
}

/** Returns the packages with a link script. */
export function scriptedPackages(packages: readonly LayeredPackage[]): readonly LayeredPackage[] {
  return packages.filter(({ linkScripts }) => linkScripts.length > 0);
}

/** Returns whether a step can run the link scripts of a package: all of them run after it is linked. */
export function isRunnable(one: LayeredPackage): boolean {
  return scriptOf(one) !== undefined;
}

/** Returns the program that runs the link scripts of packages in their order, as conda runs them. Source: conda, `run_script`. */
export function scriptProgram(packages: readonly LayeredPackage[]): string {
  const runs = packages.map(one => {
    const { name, version, buildNumber = 0 } = one.package;
    return `run ${[name, version, String(buildNumber), scriptOf(one) ?? ''].map(quoted).join(' ')}`;
  });
  return `${program}${runs.join('\n')}\n`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const program = `export PREFIX=${environmentPrefix} CONDA_PREFIX=${environmentPrefix} LC_ALL=C.UTF-8
export PATH="$PREFIX/bin:\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
shell=$(command -v bash || echo /bin/sh)
run() {
  echo "The link script of $1 $2"
  cd "$PREFIX" || exit 1
  PKG_NAME=$1 PKG_VERSION=$2 PKG_BUILDNUM=$3 "$shell" "$PREFIX/$4" </dev/null
  code=$?
  if [ -f "$PREFIX/.messages.txt" ]; then
    cat "$PREFIX/.messages.txt"
    rm -f "$PREFIX/.messages.txt"
  fi
  if [ "$code" != 0 ]; then
    echo "The link script of $1 ended with exit code $code"
    exit 1
  fi
}
`;

/** Changes with everything in the recipe that its layer depends on. */
export const scriptRecipeVersion = createHash('sha256')
  .update(scriptDockerfile(true))
  .update(scriptDockerfile(false))
  .update(program)
  .digest('hex');
