import {
  type BinaryExpression,
  type CallExpression,
  type ConditionalExpression,
  type IfStatement,
  type NewExpression,
  type Node,
  type PropertyAccessExpression,
  type ReturnStatement,
  type SourceFile,
  SyntaxKind,
  type TemplateExpression,
} from 'typescript/unstable/ast';

/** A module with one change. */
export interface Mutant {
  readonly line: number;
  /** The changed code, and what it becomes: one line. */
  readonly change: string;
  /** Name of the constant of the module whose value is changed, such as a limit. */
  readonly constant: string | undefined;
  readonly text: string;
}

/** Operators, and those that a mistake would write in their place. */
const operators: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>'],
  '<=': ['<', '>'],
  '>': ['>=', '<'],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '&&': ['||'],
  '||': ['&&'],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '+=': ['-='],
  '-=': ['+='],
};

/** Methods, and those that a mistake would call in their place. */
const methods: ReadonlyMap<string, string> = new Map([
  ['some', 'every'],
  ['every', 'some'],
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['min', 'max'],
  ['max', 'min'],
  ['indexOf', 'lastIndexOf'],
  ['lastIndexOf', 'indexOf'],
  ['floor', 'ceil'],
  ['ceil', 'floor'],
]);

/** Methods that can be left out: their result has the type of what they are called for. */
const droppedMethods = new Set([
  ...['filter', 'sort', 'toSorted', 'reverse', 'slice', 'subarray', 'trim', 'toLowerCase'],
  ...['replace', 'replaceAll'],
]);

/**
 * Returns the mutants of a module. Texts that only people read stay as they are: arguments of `new Fault(...)` and other
 * errors behind the first, and messages of errors.
 */
export function mutantsOf(source: SourceFile): Mutant[] {
  const { text } = source;
  const mutants: Mutant[] = [];
  let constant: string | undefined;

  const replace = (start: number, end: number, by: string, shown = text.slice(start, end)) => {
    if (text.slice(start, end) === by) return;
    const line = text.slice(0, start).split('\n').length;
    const change = `${oneLine(shown)} -> ${oneLine(by) || '(nothing)'}`;
    mutants.push({ line, change, constant, text: text.slice(0, start) + by + text.slice(end) });
  };
  const start = (node: Node) => node.getStart(source);
  const textOf = (node: Node) => text.slice(start(node), node.end);
  const change = (node: Node, by: string) => replace(start(node), node.end, by);

  /** Removes an element of a list with the comma behind it. */
  const drop = (node: Node) => {
    const comma = /^\s*,/.exec(text.slice(node.end))?.[0] ?? '';
    replace(start(node), node.end + comma.length, '', textOf(node));
  };

  const condition = (node: Node) => {
    change(node, 'true');
    change(node, 'false');
  };

  const binary = (node: BinaryExpression) => {
    const sign = textOf(node.operatorToken);
    const left = text.slice(start(node), node.operatorToken.pos);
    const right = textOf(node.right);
    for (const other of operators[sign] ?? []) {
      replace(start(node), node.end, `${left} ${other} ${right}`);
    }
    if (sign === '??') change(node, left);
    if (sign === '??') change(node, `(${right})`);
  };

  const call = (node: CallExpression) => {
    const callee = node.expression;
    if (callee.kind !== SyntaxKind.PropertyAccessExpression) return;
    const { name, expression } = callee as PropertyAccessExpression;
    const other = methods.get(textOf(name));
    if (other) replace(start(name), name.end, other, `${textOf(node)}: ${textOf(name)}`);
    if (droppedMethods.has(textOf(name))) change(node, textOf(expression));
  };

  const template = (node: TemplateExpression) => {
    for (const { expression } of node.templateSpans) {
      const span = `\${${textOf(expression)}} in ${textOf(node)}`;
      replace(start(expression), expression.end, "''", span);
    }
  };

  const regularExpression = (node: Node) => {
    const pattern = textOf(node);
    const end = pattern.lastIndexOf('/');
    const [body, flags] = [pattern.slice(1, end), pattern.slice(end)];
    if (body.startsWith('^')) change(node, `/${body.slice(1)}${flags}`);
    if (body.endsWith('$')) change(node, `/${body.slice(0, -1)}${flags}`);
  };

  /** Changes a number or a text, shown with what it is part of. */
  const literal = (node: Node, parent: Node, by: string) => {
    const whole = textOf(parent);
    const isShort = parent !== node && whole.length < 60;
    replace(start(node), node.end, by, isShort ? `${whole}: ${textOf(node)}` : textOf(node));
  };

  const visit = (node: Node, parent: Node): void => {
    switch (node.kind) {
      case SyntaxKind.IfStatement:
      case SyntaxKind.WhileStatement:
        condition((node as IfStatement).expression);
        break;
      case SyntaxKind.ConditionalExpression:
        condition((node as ConditionalExpression).condition);
        break;
      case SyntaxKind.BinaryExpression:
        binary(node as BinaryExpression);
        break;
      case SyntaxKind.PrefixUnaryExpression:
        if (text[start(node)] === '!') replace(start(node), start(node) + 1, '', textOf(node));
        break;
      case SyntaxKind.CallExpression:
        call(node as CallExpression);
        break;
      case SyntaxKind.ExpressionStatement:
      case SyntaxKind.ThrowStatement:
        change(node, ';');
        break;
      case SyntaxKind.ReturnStatement:
        change(node, (node as ReturnStatement).expression ? 'return undefined;' : ';');
        break;
      case SyntaxKind.PropertyAssignment:
      case SyntaxKind.ShorthandPropertyAssignment:
      case SyntaxKind.SpreadAssignment:
        drop(node);
        break;
      case SyntaxKind.ArrayLiteralExpression:
        node.forEachChild(drop);
        break;
      case SyntaxKind.Parameter:
      case SyntaxKind.BindingElement: {
        const { initializer } = node as Node & { initializer?: Node };
        if (initializer)
          replace(start(node), node.end, text.slice(start(node), initializer.pos - 1));
        break;
      }
      case SyntaxKind.NumericLiteral: {
        const number = Number(textOf(node).replaceAll('_', ''));
        literal(node, parent, String(number + 1));
        if (number > 0) literal(node, parent, String(number - 1));
        break;
      }
      case SyntaxKind.StringLiteral:
      case SyntaxKind.NoSubstitutionTemplateLiteral:
        if (textOf(node).length > 2) literal(node, parent, "''");
        break;
      case SyntaxKind.TemplateExpression:
        template(node as TemplateExpression);
        break;
      case SyntaxKind.RegularExpressionLiteral:
        regularExpression(node);
        break;
    }
    if (isForPeople(node)) {
      const { expression, arguments: [kind] = [] } = node as NewExpression;
      if (textOf(expression) === 'Fault' && kind) visit(kind, kind);
      return;
    }
    node.forEachChild(child => {
      if (!isType(child)) visit(child, node);
    });
  };

  /** A new error, or a call that makes one of a text. The kind of a fault decides; its other parts inform. */
  function isForPeople(node: Node): boolean {
    if (node.kind === SyntaxKind.CallExpression) {
      return /^(?:refused|malformed)$/.test(textOf((node as CallExpression).expression));
    }
    if (node.kind !== SyntaxKind.NewExpression) return false;
    const made = textOf((node as NewExpression).expression);
    return /(?:Fault|Error|Problem|Failure|ClosedAddress)$/.test(made);
  }

  source.forEachChild(statement => {
    constant = /^(?:export )?const (\w+)[^=]*=(?!.*=>)/.exec(textOf(statement))?.[1];
    if (!isType(statement)) visit(statement, statement);
  });
  return mutants;
}

function isType({ kind }: Node): boolean {
  const isTypeNode = kind >= SyntaxKind.FirstTypeNode && kind <= SyntaxKind.LastTypeNode;
  return isTypeNode || notRun.has(kind);
}

const notRun = new Set([
  SyntaxKind.ImportDeclaration,
  SyntaxKind.ExportDeclaration,
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
]);

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 90 ? `${line.slice(0, 60)} ... ${line.slice(-25)}` : line;
}
