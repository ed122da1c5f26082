/** How Python lock files are recognised, without what reads them. */

export { type PythonLockForm, pythonLockForm } from './lock-form.ts';
