# SPDX-License-Identifier: Apache-2.0
# Whatever is wrong with the command line ends with 2 and one line: what, where, what was expected.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

# Help teaches and succeeds.
serves --help
for word in --device --profiles --mix --clients --load --rate --arrivals --requests --policy --slo \
  --seed --json --trace --plot Examples srpt+deficit lognormal closed: trace: direct single; do
  expect "--help lacks $word" grep -qF -- "$word" out
done
expect "a pair at its limit runs" grep -qF "more than X times as long" out

# Names that do not exist.
refuses "--mix: unknown model 'resnet1800'" --mix resnet1800
refuses "--mix: unknown model 'x'" --mix resnet18_b1=2,x=1
refuses "--policy: unknown policy 'lifo'" --policy lifo
refuses "--policy: unknown policy 'lifo'" --policy fifo,lifo
refuses "--policy: unknown policy 'FIFO'" --policy FIFO
refuses "--policy: unknown policy 'fifo:1'" --policy fifo:1
refuses "policy 'boost:x': factor 'x'" --policy boost:x
refuses "policy 'boost:0': factor '0'" --policy fifo,boost:0
refuses "--device: unknown device 'sim:a100'" --device sim:a100
refuses "--device: 'x' is not a whole number" --device cuda:x
refuses "--device: '-1' is not a whole number" --device cuda:-1
refuses "--device: '' is not a whole number" --device cuda:
refuses "--device: 'none.json' does not exist" --device none.json
refuses "--device: '' is empty" --device ''
refuses "--arrivals: unknown law 'weibull'" --arrivals weibull
refuses "--arrivals: unknown law 'poisson:3'" --arrivals poisson:3
refuses "--submission: unknown value 'magic', expected graph or launches" --submission magic
refuses "--frobnicate" --frobnicate
refuses "stray" stray

# Numbers out of range or no numbers.
for bad in 0 -1 0.0 nan inf -inf 1e999 abc '' 1,5 '1 '; do
  refuses "--rate: " --rate "$bad"
  refuses "--load: " --load "$bad"
  refuses "--slo: " --slo "$bad"
  refuses "--mix: " --mix "lenet_b1=$bad"
  refuses "--arrivals: " --arrivals "lognormal:$bad"
  refuses "--quantum: " --quantum "$bad"
done
for bad in x 0x -1x nanx infx 1e999x 5x:2x 2x: :2x : 2:5x 2x:5 2x:5x: 2x:5x:6x 2x5 x2 1e7x '2x ' 2X; do
  refuses "--slo: " --slo "$bad"
done
for good in none 0.5 2x 0.5x 2x:2x 2x:5x 1e-3x:1e6x; do serves --requests 3 --policy edf --slo $good; done
for bad in 0 -1 1.5 abc '' 0x10 99999999999999999999999; do
  refuses "--clients: " --clients "$bad"
  refuses "--requests: " --requests "$bad"
  refuses "--lanes: " --lanes "$bad"
  refuses "--arrivals: " --arrivals "closed:$bad"
done
refuses "--rate: so low that 2000 requests" --rate 1e-6
refuses "--load: so low that 2000 requests" --load 1e-12
refuses "--queues: " --queues 0
refuses "--seed: " --seed -1
refuses "--seed: " --seed seed
refuses "--threshold: " --threshold -1
refuses "--slice: " --slice -1
refuses "--weights: 3 weights for 2 clients" --clients 2 --weights 1,2,4
refuses "--weights: " --weights 0
refuses "--weights: " --weights 1,x
refuses "--evict: unknown value 'maybe', expected yes or no" --evict maybe
refuses "--slice: " --slice 0
refuses "--decision-delay: " --decision-delay -1
refuses "--arrivals: " --arrivals lognormal
refuses "--arrivals: " --arrivals closed
refuses "--seed" --seed
refuses "--seed" --seed 1 --seed 2

# What contradicts itself.
refuses "--rate: given beside --load" --rate 100 --load 0.5
refuses "--load: given, but --arrivals" --arrivals closed:4 --load 0.5
refuses "--rate: given, but --arrivals" --arrivals closed:4 --rate 100
refuses "'fifo' is named twice" --policy fifo,srpt,fifo
refuses "'lenet_b1' is named twice" --mix lenet_b1=1,lenet_b1=2
refuses "empty item" --policy fifo,
refuses "empty item" --mix ,lenet_b1
refuses "is also that of --json" --json same.svg --plot same.svg

refuses "--threads: more than one beside --trace, expected 1, or no --trace" --threads 2 --trace t.json
refuses "--threads" --threads 0
refuses "--threads" --threads ''

# Paths.
refuses "--arrivals: trace file 'none.csv' cannot be opened" --arrivals trace:none.csv
refuses "--arrivals: trace file '.' cannot be opened" --arrivals trace:.
refuses "--arrivals: trace file ''" --arrivals trace:
refuses "--profiles: 'none' does not exist" --profiles none
mkdir empty one two
refuses "--profiles: no .json file in 'empty'" --profiles empty
cp "$data/profiles/lenet_b1.json" one/
cp "$data/profiles/lenet_b1.json" two/
refuses "have one name" --profiles one two
for output in --json --trace --plot; do
  refuses "$output: 'none/file.svg' cannot be written" $output none/file.svg
  refuses "$output: 'empty' is a directory" $output empty
  refuses "$output: '' is empty" $output ''
done
refuses "--plot: 'picture.gif' has an unknown type" --plot picture.gif
checks=$((checks + 1))
PATH=$work "$(command -v env)" "$bin" --plot picture.svg >out 2>err
[ $? -eq 2 ] && one_line "--plot: gnuplot is not on the path" || fail "a plot without gnuplot"

# A limit, and what only means something with one.
refuses "--slow-down-limit: '0.9' is out of range" --slow-down-limit 0.9
refuses "--slow-down-limit" --slow-down-limit 1.2 --policy direct
refuses "--most-wait" --most-wait 5
refuses "--slow-downs" --slow-downs "$data/corun_pairs.csv"
refuses "--slow-downs: 'none.csv' does not exist" --slow-down-limit 1.2 --slow-downs none.csv
refuses "--slow-downs: 'measured' is named twice" --slow-down-limit 1.2 --slow-downs measured,measured
refuses "--slow-downs" --slow-down-limit 1.2 --mix resnet18_b1 --slow-downs "$data/corun_pairs.csv"
refuses "--slow-downs: no counters of the kernels of 'squeezenet1_1_b1'" \
  --slow-down-limit 1.2 --mix resnet18_b1,squeezenet1_1_b1
refuses "/gsched_interference is missing" --slow-down-limit 1.2 --slow-downs "$data/machine.json"
mkdir -p other && sed 's/H200/H100/' "$data/machine.json" >other/machine.json
cp "$data/interference/h200.json" other/law.json
refuses "measured on NVIDIA H200, not NVIDIA H100" --slow-down-limit 1.2 --slow-downs other/law.json

# A refused command line writes nothing, and leaves what was there.
echo kept >old.json
refuses "--rate: " --json old.json --trace new.json --rate 0
refuses "--plot: " --json old.json --trace new.json --plot picture.gif
expect "an old file was changed" grep -qx kept old.json
expect "a file was made" test ! -e new.json

# A word that would break the line does not.
refuses "unknown policy" --policy $'a\nb\x1b[31m'
refuses "unknown model" --mix "$(printf 'x%.0s' {1..5000})"

finish
