import { isObject } from './metadata/package-documents.ts';

const folder = /^etc\/conda\/env_vars\.d\/[^/]+\.json$/;
const name = /^[A-Za-z_]\w*$/;

/** Returns true for a file with variables that an activation of the environment sets. */
export function isVariableFile(path: string): boolean {
  return folder.test(path);
}

/** Returns the variables of such a file; none of one that is damaged, as activation scripts do. */
export function readVariables(bytes: Buffer): Record<string, string> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    return {};
  }
  const isVariable = (pair: [string, unknown]): pair is [string, string] =>
    name.test(pair[0]) && typeof pair[1] === 'string' && !pair[1].includes('\0');
  return isObject(value) ? Object.fromEntries(Object.entries(value).filter(isVariable)) : {};
}
