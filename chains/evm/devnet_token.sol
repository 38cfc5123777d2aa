// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// The token of the development chain: ERC-20 with the bad habits of real ones, on switches.
/// Anybody may mint and switch. It is worth nothing, and belongs on no public chain.
contract DevnetToken {
    string public symbol;
    string public name;
    uint8 public immutable decimals;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    bool public paused;
    mapping(address => bool) public isBlacklisted;
    /// transfer answers false, moves nothing and emits nothing, as some old tokens do.
    bool public returnsFalse;
    /// Each transfer arrives short by this much, as rebasing tokens (1 or 2) and fee tokens do.
    uint256 public shortfall;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(string memory symbol_, uint8 decimals_) {
        symbol = symbol_;
        name = symbol_;
        decimals = decimals_;
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function setPaused(bool on) external {
        paused = on;
    }

    function setBlacklisted(address account, bool on) external {
        isBlacklisted[account] = on;
    }

    function setReturnsFalse(bool on) external {
        returnsFalse = on;
    }

    function setShortfall(uint256 value) external {
        shortfall = value;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return _move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= value, "ERC20: insufficient allowance");
        allowance[from][msg.sender] = allowed - value;
        return _move(from, to, value);
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        require(!paused, "Pausable: paused");
        require(!isBlacklisted[from] && !isBlacklisted[to], "Blacklistable: account is blacklisted");
        if (returnsFalse) return false;
        require(balanceOf[from] >= value, "ERC20: transfer amount exceeds balance");
        uint256 arriving = value > shortfall ? value - shortfall : 0;
        balanceOf[from] -= value;
        balanceOf[to] += arriving;
        totalSupply -= value - arriving;
        emit Transfer(from, to, arriving);
        return true;
    }
}
