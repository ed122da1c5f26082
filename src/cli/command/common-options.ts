import { type Option, text, type Values } from './command.ts';

/** The option of every command that prints something. */
export const jsonOption: Option = {
  type: 'boolean',
  description: 'Print the result as JSON',
};

/** The option of every command that talks to a server. */
export const serverOption: Option = {
  type: 'string',
  value: 'URL',
  description: 'Address of the server. Default: SLUICE_SERVER, then http://127.0.0.1:9090',
};

/** The variables of every command that talks to a server. */
export const serverVariables: Readonly<Record<string, string>> = {
  SLUICE_SERVER: 'Address of the server; --server wins',
  SLUICE_CA: 'PEM file with the certificate authority of the server',
};

/** The variable of every command that acts as a user. */
export const tokenVariable: Readonly<Record<string, string>> = {
  SLUICE_TOKEN: 'Access token of the user',
};

/** The option that names the configuration file. */
export const configOption: Option = {
  type: 'string',
  value: 'FILE',
  completes: 'file',
  description: 'Configuration file (YAML). Default: SLUICE_CONFIG',
};

/** The options of every command that works on a data directory. */
export const dataOptions: Readonly<Record<string, Option>> = {
  data: {
    type: 'string',
    value: 'DIRECTORY',
    completes: 'directory',
    description: 'Data directory of the server. Default: SLUICE_DATA, then ./data',
  },
  config: configOption,
};

/** The variables of every command that works on a data directory. */
export const dataVariables: Readonly<Record<string, string>> = {
  SLUICE_DATA: 'Data directory; --data wins',
  SLUICE_CONFIG: 'Configuration file; --config wins',
};

/** Returns the environment in which the given options replace their variables. */
export function environmentWith(values: Values, names: readonly string[]): NodeJS.ProcessEnv {
  const environment = { ...process.env };
  for (const name of names) {
    const value = text(values, name);
    if (value !== undefined) environment[`SLUICE_${name.toUpperCase()}`] = value;
  }
  return environment;
}
