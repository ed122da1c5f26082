import {
  ArchiveProblem,
  checkedPath,
  pythonShebang,
  showPath,
} from '../../conda/installing/index.ts';

/** A program that an installer writes for a function of a wheel. */
export interface WheelCommand {
  readonly name: string;
  readonly module: string;
  /** May have dots. */
  readonly function: string;
}

const sections: ReadonlySet<string> = new Set(['console_scripts', 'gui_scripts']);
const commandName = /^[^./\\\0][^/\\\0]*$/;
const objectReference = /^([\w.-]+)\s*:\s*([\w.-]+)\s*(?:\[[^\]]*\])?$/;
const reservedName = /^python(?:w|3|3\.\d+)?$/;
const mostCommands = 10_000;

/**
 * Returns the commands of `entry_points.txt` by their names. As in uv and pip, the wheel of pip gets its command for the version of Python.
 * Throws `ArchiveProblem` for one that is not well-formed. Source: PyPA specifications, Entry points.
 */
export function readCommands(text: string, minorVersion: string): Map<string, WheelCommand> {
  const commands = new Map<string, WheelCommand>();
  let section = '';
  for (const line of text.split('\n')) {
    const content = line.trim();
    if (content === '' || content.startsWith('#') || content.startsWith(';')) continue;
    if (content.startsWith('[')) {
      section = content.endsWith(']') ? content.slice(1, -1).trim() : '';
      continue;
    }
    if (!sections.has(section)) continue;
    const command = readCommand(content);
    if (commands.size >= mostCommands) {
      throw new ArchiveProblem(`has more than ${mostCommands} entry points`);
    }
    commands.set(command.name, command);
  }
  const pip = commands.get('pip3');
  if (pip) {
    // Older versions of pip name the Python with which they were packed.
    for (const name of commands.keys()) if (/^pip3\.\d+$/.test(name)) commands.delete(name);
    const name = `pip${minorVersion.replace(/t$/, '')}`;
    commands.set(name, { ...pip, name });
  }
  return commands;
}

function readCommand(content: string): WheelCommand {
  const equals = content.indexOf('=');
  const name = content.slice(0, Math.max(0, equals)).trim();
  const [, module, attribute] = objectReference.exec(content.slice(equals + 1).trim()) ?? [];
  if (!commandName.test(name) || module === undefined || attribute === undefined) {
    throw new ArchiveProblem(
      `has an entry point that is not of the form command = module:function, ${showPath(content)}`,
    );
  }
  if (isPythonName(name)) {
    throw new ArchiveProblem(`has an entry point with the name of Python, ${showPath(name)}`);
  }
  checkedPath(`bin/${name}`);
  return { name, module, function: attribute };
}

/** Returns whether a program would stand in for Python itself. */
export function isPythonName(name: string): boolean {
  return reservedName.test(name);
}

/**
 * Returns the program of a command, as uv writes it.
 *
 * @param python absolute path of the interpreter
 */
export function commandProgram(command: WheelCommand, python: string): Buffer {
  const { module, function: name } = command;
  return Buffer.from(
    [
      pythonShebang(python),
      '# -*- coding: utf-8 -*-',
      'import sys',
      `from ${module} import ${name.split('.', 1)[0]}`,
      'if __name__ == "__main__":',
      '    if sys.argv[0].endswith("-script.pyw"):',
      '        sys.argv[0] = sys.argv[0][:-11]',
      '    elif sys.argv[0].endswith(".exe"):',
      '        sys.argv[0] = sys.argv[0][:-4]',
      `    sys.exit(${name}())`,
      '',
    ].join('\n'),
  );
}
