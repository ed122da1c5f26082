import { ArchiveProblem } from '../../conda/installing/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { projectVersion } from '../project-version.ts';
import { fitOfWheel, type PythonTarget } from '../solving/python-target.ts';
import { type BuiltWheel, projectName } from '../wheel-file.ts';
import { checkMetadata, readMetadata } from '../wheels/wheel-metadata.ts';

const wheelName =
  /^([A-Za-z0-9._]{1,200})-([A-Za-z0-9._+!]{1,200})(?:-\d[A-Za-z0-9_.]{0,100})?-[A-Za-z0-9_.]{1,200}-[A-Za-z0-9_.]{1,200}-[A-Za-z0-9_.]{1,200}\.whl$/;

/** Returns the project and version in the name of a wheel; undefined for a name that is none. */
export function identityOfWheel(fileName: string): { name: string; version: string } | undefined {
  const [, name = '', version = ''] = wheelName.exec(fileName) ?? [];
  return projectVersion(version) === undefined ? undefined : { name: projectName(name), version };
}

/**
 * Throws a `Fault` for a wheel that a build has made of something else than its source distribution says, or for another system. Its
 * name and metadata were written by the code of the package, and the solver reads both.
 */
export function checkBuiltWheel(
  { name, version, fileName, metadata }: Omit<BuiltWheel, 'url' | 'sha256' | 'size'>,
  target: PythonTarget,
): void {
  const problem = (what: string) =>
    new Fault('bad-request', `The build of ${name} ${version} has made a wheel ${what}`, {
      phase: 'build',
    });
  const shown = JSON.stringify(fileName.slice(0, 200));
  const [, project = '', itsVersion = ''] = wheelName.exec(fileName) ?? [];
  const isSame =
    projectName(project) === projectName(name) &&
    projectVersion(itsVersion) === projectVersion(version);
  if (!isSame) throw problem(`with the name ${shown}, which is of another project or version`);
  try {
    checkMetadata(readMetadata(metadata), { name, version });
  } catch (error) {
    throw error instanceof ArchiveProblem ? problem(`that ${error.message}`) : error;
  }
  if (fitOfWheel(fileName, target) !== undefined) return;
  throw problem(
    `${shown}, which does not run with Python ${target.version} on Linux for ${target.machine} with glibc ${target.glibc}`,
  );
}
