{
  description = "dsbuild: Nix for training data";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forAll = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      core = ps: with ps; [ click tomli blake3 numpy zarr numcodecs google-crc32c tokenizers rich zstandard ];
      extras = ps: with ps; [ pyarrow pytest pytest-xdist hypothesis mypy ruff psutil ];
      package = pkgs: pkgs.python3Packages.buildPythonApplication {
        pname = "dsbuild";
        version = "0.1.0";
        pyproject = true;
        src = self;
        build-system = [ pkgs.python3Packages.hatchling ];
        dependencies = core pkgs.python3Packages;
        nativeCheckInputs = extras pkgs.python3Packages;
        pythonImportsCheck = [ "dsbuild" ];
      };
    in
    {
      packages = forAll (pkgs: { default = package pkgs; });

      devShells = forAll (pkgs: {
        default = pkgs.mkShell {
          packages = [ (pkgs.python3.withPackages (ps: core ps ++ extras ps ++ [ ps.hatchling ])) pkgs.git ];
          shellHook = "export PYTHONPATH=$PWD:$PYTHONPATH";
        };
      });

      checks = forAll (pkgs: {
        package = package pkgs;
        tests = (package pkgs).overridePythonAttrs (old: {
          pname = "dsbuild-tests";
          checkPhase = "pytest";
        });
        lint = pkgs.runCommand "dsbuild-lint" { nativeBuildInputs = [ pkgs.ruff ]; } ''
          cd ${self} && ruff check --no-cache . && touch $out
        '';
      });
    };
}
