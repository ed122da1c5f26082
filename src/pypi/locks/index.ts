/** Lock files of Python packages are recognised, and the requirements of a project are read. */

export { type PythonLockForm, pythonLockForm } from './lock-form.ts';
export type { ProjectParts } from './project-parts.ts';
export { isPyproject, readPyproject } from './pyproject.ts';
